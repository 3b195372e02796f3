#!/usr/bin/env bash
# What INSTRUCTORS.md tells root to do, for four users and two courses, and then JupyterHub.
#     start.sh PYTHON HOMES [options of JupyterHub]
set -euo pipefail
python=$1 homes=$2
here=$(dirname "${BASH_SOURCE[0]}")
mkdir -m 755 "$homes"
for user in ada alan grace linus; do
    useradd --create-home --key HOME_MODE=0700 --base-dir "$homes" --shell /bin/bash "$user"
    echo "$user:password of $user" | chpasswd
done
install -d -m 777 /srv/nbgrader/exchange
install -D -m 644 "$here/nbgrader_config.py" /etc/jupyter/nbgrader_config.py
install -D -m 644 "$here/jupyterhub_config.py" /etc/jupyterhub/jupyterhub_config.py
# A course in the home of each grader; its source was put beside.
for pair in grace:memory linus:systems; do
    grader=${pair%:*} course=${pair#*:}
    home=$homes/$grader
    cp -r "$homes/../source-of-$course" "$home/$course"
    mkdir -p "$home/.jupyter"
    sed "s/memory/$course/" "$here/course_nbgrader_config.py" | tee "$home/$course/nbgrader_config.py" > "$home/.jupyter/nbgrader_config.py"
    chown -R "$grader:" "$home"
done
mkdir -p /srv/jupyterhub && cd /srv/jupyterhub
exec "$python" -m jupyterhub -f /etc/jupyterhub/jupyterhub_config.py "${@:3}"
