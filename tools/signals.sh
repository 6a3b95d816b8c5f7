# To be sourced by scripts that have a trap for EXIT: dash ends by a signal without it, unless the signal has a
# trap of its own.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
