#!/bin/bash
# launch.sh: a sandbox in place of a machine, for hosts that cannot boot one: namespaces of our own, the host's programs
# read-only below, stand-in commands first on PATH. No root, no systemd, no dockerd. Same environment as ../launcher.sh,
# and M_SEEN: further folders that must be seen inside (the interpreter, this project), one a line.
set -eu
here=$(dirname "$0")

network() {
  ip link set lo up
  for address in 169.254.169.254 "$M_ADDRESS"; do ip address add "$address/32" dev lo; done
  if [ "$M_EGRESS" = 1 ] || [ "$M_GOOGLE" = 1 ]; then ip address add 199.36.153.8/32 dev lo; fi
  if [ "$M_EGRESS" = 1 ]; then ip address add 203.0.113.1/32 dev lo; fi
}

see() { # FOLDER: the host's folder at the same place in here
  [ -d "$1" ] || return 0
  mkdir -p "$root$1"
  mount --rbind "$1" "$root$1"
}

programs() { # FOLDER: its programs, but a host's own engine, which is none of the machine's
  local file
  mkdir -p "$root$1" "$root/.host$1"
  mount --bind "$1" "$root/.host$1"
  for file in "$1"/*; do
    case ${file##*/} in docker* | containerd*) ;; *) echo "/.host$file" ;; esac
  done | xargs -d '\n' ln -sf -t "$root$1"
}

root_folder() { # its own etc, var, opt, root, run; they are there again at the next power-on, but run
  root=$M_DIR/disk/root
  if [ ! -d "$M_DIR/disk/made" ]; then
    mkdir -p "$root"/{etc,var/lib,var/log,var/cache,var/tmp,opt,root,run,tmp,proc,dev,usr} "$M_DIR/out"
    cp -r /etc/. "$root/etc/" 2>/dev/null || : # what we may not read, the script does not need
    rm -rf "$root/etc/resolv.conf" "$root/etc/hosts" "$root/etc/systemd" "$root/etc/ssl"
    mkdir -p "$root/etc/systemd/system"
    mkdir "$M_DIR/disk/made"
  fi
  mount --bind "$root" "$root"
  cp -r "$M_CONF/etc/." "$root/etc/"
  mount -t tmpfs tmpfs "$root/run"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  for folder in /usr/*; do
    case $folder in /usr/bin | /usr/sbin | /usr/local) ;; *) see "$folder" ;; esac
  done
  for folder in /usr/bin /usr/sbin /usr/local/bin /usr/local/sbin; do programs "$folder"; done
  see /usr/local/lib
  for folder in /bin /sbin /lib /lib64; do
    if [ -L "$folder" ]; then ln -sfn "$(readlink "$folder")" "$root$folder"; else see "$folder"; fi
  done
  see "$M_DIR"
  see "$M_CONF"
  while read -r folder; do see "$folder"; done <<<"$M_SEEN"
  cd "$root"
  pivot_root . .
  umount -l .
  cd /
}

if [ "${1:-}" != inside ]; then
  exec setpriv --pdeathsig KILL unshare --user --map-root-user --mount --propagation private --pid --fork --kill-child=KILL \
    --mount-proc --net bash "$here/launch.sh" inside
fi

network
# The stand-ins see the host as it is. They are told apart from the machine's own processes by nothing: it is a sandbox.
exec 3< <(exec "$M_PYTHON" -m rehearsal.machine.fakes "$M_DIR/fakes.json")
ready=
read -r -t 20 ready <&3 || :
if [ "$ready" != ready ]; then
  echo "the stand-ins did not start" >&2
  exit 70
fi
root_folder

path=$M_DIR/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
env -i PATH="$path" docker _boot
env -i PATH="$path" curl -sf -H Metadata-Flavor:Google -o /run/startup-script \
  http://metadata.google.internal/computeMetadata/v1/instance/attributes/startup-script || :
if [ -s /run/startup-script ]; then
  env -i PATH="$path" bash /run/startup-script 2>&1 </dev/null | sed -u 's/^/sandbox: startup-script: /' >>"$M_DIR/out/console.log" &
fi
until [ -e /run/sandbox-off ]; do
  sleep 0.1 &
  wait "$!" || :
done
exit "$(cat /run/sandbox-off)"
