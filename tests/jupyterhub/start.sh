#!/usr/bin/env bash
# What INSTRUCTORS.md tells root to do, for four people and two courses, and then JupyterHub.
#     start.sh PYTHON SOURCE HOMES [options of JupyterHub]        SOURCE: the folder of the assignments' sources
set -euo pipefail
python=$1 source=$2 homes=$3
here=$(dirname "${BASH_SOURCE[0]}")
mkdir -m 755 "$homes"
for user in ada alan grace linus; do
    useradd --create-home --key HOME_MODE=0700 --base-dir "$homes" --shell /bin/bash "$user"
    echo "$user:password of $user" | chpasswd
done
echo "PATH=$(dirname "$python"):\$PATH" > /etc/profile.d/jupyterhub.sh
install -d -m 777 /srv/nbgrader/exchange
cp -r "$here/etc/." /etc
for pair in grace:memory linus:systems; do
    grader=${pair%:*} course=${pair#*:} home=$homes/${pair%:*}
    mkdir -p "$home/$course/source" "$home/.jupyter"
    cp -r "$source/01_activation_memory" "$home/$course/source"
    for folder in "$course" .jupyter; do
        sed "s/memory/$course/" "$here/course_nbgrader_config.py" > "$home/$folder/nbgrader_config.py"
    done
    chown -R "$grader:" "$home"
done
mkdir -p /srv/jupyterhub && cd /srv/jupyterhub
exec "$python" -m jupyterhub -f /etc/jupyterhub/jupyterhub_config.py "${@:4}"
