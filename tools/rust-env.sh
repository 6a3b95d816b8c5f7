# Finds a Rust toolchain that can build this workspace. To be sourced from the repository root by
# sh; installs nothing (tools/setup does that). Afterwards `rust_ready` tells whether one was found.

# Read from the workspace manifest, so that the version is written down once.
rust_wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' Cargo.toml)

# rustup installs here, but a shell that was open before does not have it on PATH.
rust_bin=${CARGO_HOME:-$HOME/.cargo}/bin
case ":$PATH:" in
*":$rust_bin:"*) ;;
*) PATH=$PATH:$rust_bin && export PATH ;;
esac

# version_reaches FOUND WANTED: is FOUND the same or newer? Debian's "1.85.1+dfsg1" compares too.
version_reaches() {
    [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

# Only a cargo that answers counts: rustup's stand-in exists also where no toolchain does.
# RUSTUP_AUTO_INSTALL=0 keeps a mere question from starting a download.
rust_found() {
    RUSTUP_AUTO_INSTALL=0 cargo --version >/dev/null 2>&1 || return 0
    RUSTUP_AUTO_INSTALL=0 rustc --version 2>/dev/null | cut -d ' ' -f 2
}

rust_ready() {
    version_reaches "$(rust_found)" "$rust_wanted"
}

# The user's default may be old, or unset, while the stable toolchain is there and new enough. Their
# default stays as it is: the choice holds for the commands that follow, nothing else.
if ! rust_ready && command -v rustup >/dev/null 2>&1 &&
    version_reaches "$(RUSTUP_TOOLCHAIN=stable rust_found)" "$rust_wanted"; then
    RUSTUP_TOOLCHAIN=stable && export RUSTUP_TOOLCHAIN
fi
