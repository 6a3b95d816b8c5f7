# Virtual environments of Python, each for a file of requirements. To be sourced by a sh that has `fail`.

# A Python that is new enough and can make virtual environments: a stand-in of pyenv may be neither.
usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

# Sets $python to one.
find_python() {
    for python in "${PYTHON:-python3}" /usr/bin/python3 python3.14 python3.13 python3.12 python3.11 python3.10; do
        if usable "$python"; then
            return 0
        fi
    done
    return 1
}

# venv_is_for VENV REQUIREMENTS: is it there, for these, and of a Python that is? After an upgrade of the
# distribution it has another one, of which nothing is installed there, not even pip.
venv_is_for() {
    [ "$(cat "$1/made-for" 2>/dev/null)" = "$(sha256sum <"$2")" ] &&
        usable "$1/bin/python" && "$1/bin/python" -c 'import pip' >/dev/null 2>&1
}

# venv_made VENV REQUIREMENTS: makes it anew with $python; whether pip could install them. Only then is it
# for these.
venv_made() {
    rm -rf "$1"
    "$python" -m venv "$1" || fail "$python cannot make $1, see above"
    "$1/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: --requirement "$2" &&
        sha256sum <"$2" >"$1/made-for"
}
