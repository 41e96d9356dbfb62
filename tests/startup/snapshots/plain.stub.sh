#!/bin/bash
# flexserve: fetches the machine's script from its metadata, runs it, and again whenever it is changed there.
#   boot   (default) install the watcher, run the script
#   watch  wait for a change of the script in the metadata, run it
set -euo pipefail
export HOME=/root LC_ALL=C.UTF-8 PATH="${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
umask 022

readonly STATE=/var/lib/flexserve RUN=/run/flexserve
readonly SCRIPT=$STATE/script STUB=$STATE/stub LOG=$STATE/boot.log UNIT=/etc/systemd/system/flexserve-watch.service
readonly URL=http://metadata.google.internal/computeMetadata/v1/instance/attributes/flexserve-script
readonly END='# flexserve: end of script'

say() {
  echo "flexserve: $*"
  { echo "flexserve: $*" >/dev/console; } 2>/dev/null || true
}

# ask FILE QUERY: the script as it is in the metadata now, whole or not at all, into FILE; its ETag into FILE.etag
ask() {
  local status
  status=$(curl -sS --connect-timeout 5 --max-time 120 -H 'Metadata-Flavor: Google' -D "$1.head" -o "$1.part" -w '%{http_code}' "$URL$2") || return 1
  if [ "$status" != 200 ]; then
    echo "flexserve: metadata server: HTTP $status for flexserve-script" >&2
    return 1
  fi
  if [ -n "$(tail -c 1 "$1.part")" ]; then echo >>"$1.part"; fi # the script's hash is over whole lines
  if [ "$(tail -n 1 "$1.part")" != "$END" ]; then
    echo "flexserve: the script in the metadata is not complete" >&2
    return 1
  fi
  sed -n 's/\r$//; s/^[Ee][Tt][Aa][Gg]: *//p' "$1.head" | tail -n 1 >"$1.etag"
  mv "$1.part" "$1"
}

# fetch FILE: the same, for as long as a metadata server may need to come up
fetch() {
  local try
  for try in 1 2 3 4 5 6 7 8 9 10; do
    if ask "$1" ''; then return 0; fi
    sleep "$try"
  done
  say "no script in the metadata key flexserve-script"
  return 1
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

install_watcher() {
  install -m 700 "$0" "$STUB.new" && mv "$STUB.new" "$STUB" &&
    cat >"$UNIT" <<UNIT && systemctl daemon-reload && systemctl start --no-block flexserve-watch.service
[Unit]
Description=flexserve: runs the machine's script again when it changes in the metadata
After=network-online.target

[Service]
ExecStart=/bin/bash $STUB watch
Restart=always
RestartSec=5
StandardOutput=journal+console
StandardError=inherit
UNIT
}

watch() {
  local new=$RUN/watched etag hash started=''
  until ask "$new" ''; do sleep 5; done
  while true; do
    etag=$(cat "$new.etag")
    hash=$(sha256sum <"$new")
    if [ "$hash" = "$started" ] || cmp -s "$new" "$SCRIPT"; then
      ask "$new" "?wait_for_change=true&timeout_sec=60&last_etag=$etag" || sleep 5
    elif ! ask "$new" "?wait_for_change=true&timeout_sec=3&last_etag=$etag"; then
      sleep 5
    elif [ "$(cat "$new.etag")" = "$etag" ]; then # changed, and quiet since: settings may change one after the other
      say "the script in the metadata has changed: running it"
      started=$hash
      { run "$new" || say "the changed script ended with status $?"; } & # and go on watching: it may need another change
    fi
  done
}

mkdir -p "$STATE"
install -d -m 700 "$RUN"
case "${1:-boot}" in
  boot)
    fetch "$RUN/fetched"
    install_watcher || say "the watcher does not start: a changed script waits for the next boot"
    run "$RUN/fetched"
    ;;
  watch) watch ;;
  *)
    echo "usage: $0 [boot | watch]" >&2
    exit 2
    ;;
esac
