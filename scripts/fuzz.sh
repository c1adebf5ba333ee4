#!/bin/sh
# Runs each fuzz target of the module for a while. usage: fuzz.sh [TIME]
set -eu
time=${1:-20s}
for dir in $(go list -f '{{.Dir}}' ./...); do
  for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do
    echo "fuzz: $dir $target"
    (cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" .)
  done
done
