#!/bin/bash
# launcher.sh: boot one machine and stay until it is off. Exit 0: powered off; 133: it asked for a reboot, run this again.
# SIGKILL to this process is a power cut: everything of the machine lives in its namespaces and goes with them.
# In the environment: M_ID (unique on this host), M_NAME, M_DIR (its folder), M_ROOT, M_CONF (read-only layers), M_DISK_GB,
# M_EGRESS and M_GOOGLE (1 or 0), M_ADDRESS, M_MAC, M_MORE (further addresses of stand-ins), M_PYTHON and PYTHONPATH.
set -eu

enter_cgroup() { # one cgroup a machine, below our own, in every hierarchy
  local lines line controllers path name top base lock
  exec {lock}>/run/flexserve-rehearsal.lock # a sweep of empty cgroups waits until we are in ours
  flock "$lock"
  mapfile -t lines </proc/self/cgroup # read it whole first: the paths change while we move
  for line in "${lines[@]}"; do
    IFS=: read -r _ controllers path <<<"$line"
    name=${controllers#name=}
    top=/sys/fs/cgroup/${name:-unified}${path%/}
    [ -d "$top" ] || top=/sys/fs/cgroup${path%/} # version 2 alone
    [ -n "$controllers" ] || [ -e "$top/cgroup.controllers" ] || continue
    [ -d "$top" ] || continue
    base=$top/rehearsal
    mkdir -p "$base"
    if [ "$name" = cpuset ]; then
      cat "$top/cpuset.cpus" >"$base/cpuset.cpus"
      cat "$top/cpuset.mems" >"$base/cpuset.mems"
      echo 1 >"$base/cgroup.clone_children"
    fi
    mkdir -p "$base/$M_ID"
    echo $$ >"$base/$M_ID/cgroup.procs"
  done
  exec {lock}>&-
}

network() { # a nic with the address the cloud gave; what no stand-in answers for is dropped, as on a private network
  ip link set lo up
  ip address add 169.254.169.254/32 dev lo
  if [ "$M_EGRESS" = 1 ] || [ "$M_GOOGLE" = 1 ]; then ip address add 199.36.153.8/32 dev lo; fi
  if [ "$M_EGRESS" = 1 ]; then ip address add 203.0.113.1/32 dev lo; fi
  local address
  for address in $M_MORE; do ip address add "$address/32" dev lo; done
  if ip link add ens4 address "$M_MAC" type veth peer name rehearsal0 2>/dev/null; then
    ip address add "$M_ADDRESS/32" dev ens4
    ip link set rehearsal0 up
    ip link set ens4 up
    ip neighbour add 10.128.0.1 lladdr 42:01:0a:80:00:01 dev ens4 nud permanent
    ip route add 10.128.0.1 dev ens4
    ip route add default via 10.128.0.1 dev ens4
  else
    ip address add "$M_ADDRESS/32" dev lo
  fi
}

disk() { # a file system of the size the cloud was asked for, in a sparse file
  mkdir -p "$M_DIR/disk" "$M_DIR/out"
  if [ ! -f "$M_DIR/disk.img" ]; then
    truncate -s "${M_DISK_GB}G" "$M_DIR/new.img"
    mkfs.ext4 -q -F -m 1 -i 65536 -E lazy_itable_init=1,lazy_journal_init=1 "$M_DIR/new.img"
    mv "$M_DIR/new.img" "$M_DIR/disk.img"
  fi
  mount -o loop,noinit_itable "$M_DIR/disk.img" "$M_DIR/disk"
  mkdir -p "$M_DIR/disk/upper" "$M_DIR/disk/work" "$M_DIR/disk/docker" "$M_DIR/disk/containerd" "$M_DIR/disk/root"
  mount -t overlay overlay -o "lowerdir=$M_CONF:$M_ROOT,upperdir=$M_DIR/disk/upper,workdir=$M_DIR/disk/work" "$M_DIR/disk/root"
}

if [ "${1:-}" != inside ]; then
  enter_cgroup
  exec setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child=KILL --mount-proc --net \
    bash "$0" inside
fi

network
disk
exec 3< <(exec "$M_PYTHON" -m rehearsal.machine.fakes "$M_DIR/fakes.json") # they die with this pid namespace
ready=
read -r -t 20 ready <&3 || :
if [ "$ready" != ready ]; then
  echo "the stand-ins did not start" >&2
  exit 70
fi
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network # else /proc/sys/net is read-only and dockerd cannot turn on forwarding
exec systemd-nspawn -q --register=no --keep-unit --network-namespace-path=/proc/self/ns/net --hostname="$M_NAME" \
  --capability=all --system-call-filter="add_key keyctl bpf" --link-journal=no --console=pipe --resolv-conf=off \
  --timezone=off --bind="$M_DIR/out:/out" --bind="$M_DIR/disk/docker:/var/lib/docker" \
  --bind="$M_DIR/disk/containerd:/var/lib/containerd" -D "$M_DIR/disk/root" --machine="$M_ID" \
  --boot systemd.show_status=0 </dev/null
