"""A course, in its grader's home: ~/memory/nbgrader_config.py, and the same in ~/.jupyter/ for the Formgrader."""

from pathlib import Path

c = get_config()  # noqa: F821 - nbgrader defines it
c.CourseDirectory.course_id = "memory"
c.CourseDirectory.root = str(Path.home() / "memory")
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "key.py", "hidden.py"]
