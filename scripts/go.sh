#!/bin/sh
# Says whether there is a Go command that can build this. Any since 1.21 will
# do: it fetches the toolchain that $GOTOOLCHAIN names by itself.
set -eu
if ! command -v go >/dev/null 2>&1; then
  if [ -x /usr/local/go/bin/go ]; then
    echo "Go is in /usr/local/go/bin but not on PATH. Run this and try again:" >&2
    echo "    export PATH=\$PATH:/usr/local/go/bin" >&2
  else
    echo "Go is missing; it is the one thing that is not installed for you. Get it from https://go.dev/dl/ (1.21 or newer)." >&2
  fi
  exit 1
fi
if ! out=$(go version 2>&1); then
  echo "Go cannot get its toolchain ${GOTOOLCHAIN:-}: $out" >&2
  echo "It comes through the module proxy (\`go env GOPROXY\`); is the network there?" >&2
  exit 1
fi
