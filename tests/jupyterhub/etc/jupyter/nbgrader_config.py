"""What everybody on the hub shares: /etc/jupyter/nbgrader_config.py"""

from nbgrader.auth import JupyterHubAuthPlugin

c = get_config()  # noqa: F821 - nbgrader defines it
c.Exchange.root = "/srv/nbgrader/exchange"  # a folder with mode 777, made by root
c.Exchange.path_includes_course = True  # a student's assignments of two courses lie in two folders
c.Authenticator.plugin_class = JupyterHubAuthPlugin
