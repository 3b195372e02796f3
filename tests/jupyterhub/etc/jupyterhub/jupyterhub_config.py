"""JupyterHub for two courses on one machine, whose people have Unix accounts: /etc/jupyterhub/jupyterhub_config.py

Each course has one account that grades it. Two courses are graded at once by two people, or by two accounts.
"""

import sys

COURSES = {
    "memory": {"grader": "grace", "students": ["ada", "alan"]},
    "systems": {"grader": "linus", "students": ["ada", "alan"]},
}

c = get_config()  # noqa: F821 - JupyterHub defines it
c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # put a web server with a certificate in front of it
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab"
c.Spawner.start_timeout = c.Spawner.http_timeout = 300  # s: a whole class may start at once
c.Authenticator.allowed_users = {
    user for course in COURSES.values() for user in (course["grader"], *course["students"])
}
# nbgrader finds the courses of a person by these names of groups, with the rights of that person's own server.
c.JupyterHub.load_groups = {
    name: {"users": users}
    for course, people in COURSES.items()
    for name, users in ((f"formgrade-{course}", [people["grader"]]), (f"nbgrader-{course}", people["students"]))
}
c.JupyterHub.load_roles = [{"name": "server", "scopes": ["inherit"]}]
