#!/bin/bash
# flexserve: sets this machine's end, fetches its script from the bucket, runs it at every boot, and again when it changes.
#   boot       (default) the units; the end and the boot are theirs from here on
#   run        fetch the script, run it
#   again SHA  the same, once the bucket has the script of that SHA-256; nothing to do when it runs or has run
set -euo pipefail
export HOME=/root LC_ALL=C.UTF-8 PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
umask 022

readonly STATE=/var/lib/flexserve RUN=/run/flexserve UNITS=/etc/systemd/system
readonly SCRIPT=$STATE/script STUB=$STATE/stub LOG=$STATE/boot.log
readonly IMDS=http://169.254.169.254/latest REGION=us-east-1
readonly URL=https://s3.us-east-1.amazonaws.com/fs-k3j9x2/bu1lder/script
readonly END='# flexserve: end of script' DEADLINE=1796000000

say() {
  echo "flexserve: $*"
  { echo "flexserve: $*" >/dev/console; } 2>/dev/null || true
}

# credentials FILE: the machine's own role, as a configuration of curl's that only root may read
credentials() {
  local session="$RUN/stub.header" role
  (
    umask 077
    curl -sS --fail --max-time 5 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "$IMDS/api/token" |
      sed 's/^/X-aws-ec2-metadata-token: /' >"$session"
    role=$(curl -sS --fail --max-time 5 -H "@$session" "$IMDS/meta-data/iam/security-credentials/" | head -n 1)
    curl -sS --fail --max-time 5 -H "@$session" "$IMDS/meta-data/iam/security-credentials/$role" | python3 -c '
import json, sys
found = json.load(sys.stdin)
print("header = \"x-amz-security-token: " + found["Token"] + "\"")
print("user = \"" + found["AccessKeyId"] + ":" + found["SecretAccessKey"] + "\"")
' >"$1"
  )
}

# ask FILE: the script as the bucket has it now, whole or not at all, into FILE
ask() {
  local status
  credentials "$RUN/stub.curl" || return 1
  status=$(curl -sS --connect-timeout 5 --max-time 120 -K "$RUN/stub.curl" --aws-sigv4 "aws:amz:$REGION:s3" \
    -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' -o "$1.part" -w '%{http_code}' "$URL") || status=000
  rm -f "$RUN/stub.curl" "$RUN/stub.header"
  if [ "$status" != 200 ]; then
    echo "flexserve: the bucket: HTTP $status for the script" >&2
    return 1
  fi
  if [ "$(tail -n 1 "$1.part")" != "$END" ]; then
    echo "flexserve: the script in the bucket is not complete" >&2
    return 1
  fi
  mv "$1.part" "$1"
}

# fetch FILE [SHA]: the same, for as long as a role may need to be known; with a hash, that very script
fetch() {
  local try
  for try in 1 2 2 3 4 5 8 10 10 15 15 15 15 15; do
    if ask "$1" && { [ -z "${2:-}" ] || [ "$(hash_of "$1")" = "$2" ]; }; then return 0; fi
    sleep "$try"
  done
  say "the bucket does not give the script"
  return 1
}

hash_of() {
  sha256sum <"$1" | cut -d ' ' -f 1
}

# run FILE: the script, one run at a time. A run of another script makes way; one of the same script is waited for.
run() {
  local status=0 pid script=$SCRIPT
  exec 9>>"$RUN/lock"
  if ! flock -n 9; then
    pid=$(cat /run/flexserve/boot.pid 2>/dev/null || true)
    if [ -n "$pid" ] && grep -q startup.onboard "/proc/$pid/cmdline" 2>/dev/null && ! cmp -s "$1" "$SCRIPT"; then
      say "a changed script: the run of the one before is stopped"
      kill -TERM "$pid" 2>/dev/null || true
    fi
    flock 9
  fi
  if ! { install -m 700 "$1" "$SCRIPT.new" && mv "$SCRIPT.new" "$SCRIPT"; }; then
    script=$1 # a full disk: the script runs all the same, and reports it
  fi
  if [ -e "$LOG" ] && [ "$(stat -c %s "$LOG")" -gt 8000000 ]; then mv "$LOG" "$LOG.1"; fi
  env -i HOME="$HOME" PATH="$PATH" LC_ALL="$LC_ALL" bash "$script" 2>&1 | tee -a "$LOG" || status=${PIPESTATUS[0]}
  exec 9>&-
  return "$status"
}

# The end is an absolute time: it holds over a reboot, and a machine that was off when it passed ends at its next boot.
units() {
  install -m 700 "$0" "$STUB.new" && mv "$STUB.new" "$STUB"
  cat >"$UNITS/flexserve-deadline.service" <<UNIT
[Unit]
Description=flexserve: the window is over

[Service]
Type=oneshot
ExecStart=/bin/systemctl poweroff --no-wall
UNIT
  cat >"$UNITS/flexserve-deadline.timer" <<UNIT
[Unit]
Description=flexserve: the end of the window

[Timer]
OnCalendar=$(date -u -d "@$DEADLINE" '+%Y-%m-%d %H:%M:%S UTC')
AccuracySec=1s
Persistent=true

[Install]
WantedBy=timers.target
UNIT
  cat >"$UNITS/flexserve-boot.service" <<UNIT
[Unit]
Description=flexserve: the machine's script
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
ExecStart=/bin/bash $STUB run
StandardOutput=journal+console
StandardError=inherit
KillMode=process

[Install]
WantedBy=multi-user.target
UNIT
  systemctl daemon-reload
  systemctl enable --now flexserve-deadline.timer
  systemctl enable flexserve-boot.service
  systemctl start --no-block flexserve-boot.service
}

mkdir -p "$STATE"
install -d -m 700 "$RUN"
case "${1:-boot}" in
  boot) units ;;
  run)
    fetch "$RUN/fetched"
    run "$RUN/fetched"
    ;;
  again)
    # The first boot has not come that far, or this very script runs or serves: nothing to do.
    if [ ! -e "$SCRIPT" ] || { [ "$(hash_of "$SCRIPT")" = "${2:-}" ] && ! grep -q '"state":"failed"' "$STATE/state" 2>/dev/null; }; then
      say "the script is the one that runs"
      exit 0
    fi
    fetch "$RUN/again.$$" "${2:-}"
    run "$RUN/again.$$"
    ;;
  *)
    echo "usage: $0 [boot | run | again SHA256]" >&2
    exit 2
    ;;
esac
exit 0
