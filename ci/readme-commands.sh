#!/usr/bin/env bash
# The README promises two commands; they must stand there, each once and alone on its line.
set -euo pipefail
cd "$(dirname "$0")/.."

for command in 'cargo run --release -- run -p "Once upon a time"' 'cargo test --workspace'; do
    count=$(grep -cxF -- "$command" README.md || true)
    if [ "$count" != 1 ]; then
        echo "README.md: expected one line '$command', found $count" >&2
        exit 1
    fi
    echo "README.md holds: $command"
done
