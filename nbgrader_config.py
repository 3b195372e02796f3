# Read by every nbgrader command, and by its JupyterLab extension, when started in this folder.
# solutions/ is what we write; exercises/ is generated from it and is what students get.
from pathlib import Path

c = get_config()  # noqa: F821 - nbgrader defines it

c.CourseDirectory.course_id = "remember-or-recompute"
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
# key.py says how answers are judged, hidden.py (if any) asks what nobody has seen: only the instructor has them.
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "feedback", "key.py", "hidden.py"]
