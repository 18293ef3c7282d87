# Functions that the CI scripts share: section headings with times, and Debian packages.
# shellcheck shell=bash

section_title=""
section_start=0

# Minutes and seconds since $SECONDS stood at $1.
elapsed() {
    local seconds=$((SECONDS - $1))
    printf '%d min %02d s' $((seconds / 60)) $((seconds % 60))
}

# Ends the section that is open and says how long it took.
close_section() {
    [ -z "$section_title" ] || printf -- '--- %s: %s\n' "$section_title" "$(elapsed "$section_start")"
    section_title=""
}

# Opens the section called $1.
section() {
    close_section
    section_title=$1
    section_start=$SECONDS
    printf '\n=== %s ===\n' "$section_title"
}

# Runs apt-get without questions; waits for another apt-get that holds the lock.
apt_quiet() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# Fetches the package lists with the apt function $1. A third-party source that is down must not
# stop the run: a package that is really missing fails when it is asked for.
update_lists() {
    "$1" update || echo "apt-get update reported errors; going on with the lists there are"
}

# Installs those of the named packages that are missing; removes nothing in exchange.
install_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed \
            || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "Installing ${missing[*]}"
    update_lists apt_quiet
    apt_quiet install -y --no-install-recommends --no-remove "${missing[@]}"
}
