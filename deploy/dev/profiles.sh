# Functions of the scripts beside this file, which read it: profiles, files of shell in a folder ($profiles). Their first lines say
# what they are; the script that uses them says what functions they may define.

in_profiles() {   # function arguments ; call this function of each chosen profile that has it
  local profile
  for profile in "${chosen[@]}"; do
    (
      . "$profiles/$profile.sh"
      if declare -F "$1" >/dev/null; then "$@"; fi
    )
  done
}

have_function() { # function ; has a chosen profile this one?
  local profile
  for profile in "${chosen[@]}"; do grep -q "^$1() {" "$profiles/$profile.sh" && return; done
  return 1
}

read_words() {    # words of the command line ; into verb, dir and chosen
  verb=${1:-} dir='' chosen=()
  [ $# = 0 ] || shift
  while [ $# -gt 0 ]; do
    if [ "$1" = --profile ]; then
      IFS=, read -r -a chosen <<<"${2:?names}"
      shift
    else
      dir=$1
    fi
    shift
  done
  local profile
  for profile in "${chosen[@]}"; do [ -f "$profiles/$profile.sh" ] || die "there is no profile '$profile'"; done
}

usage() {         # the first comment of the script, and those of the profiles
  sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' "$0"
  awk 'FNR == 1 {top = 1} !/^#/ {top = 0} top {sub(/^# /, "  "); print}' "$profiles"/*.sh
  exit 2
}
