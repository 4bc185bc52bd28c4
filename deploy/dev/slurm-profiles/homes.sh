# homes: each node has a home directory of its own, and so has the login node (root only)
configure() { # dir name nodes
  local i
  mkdir -p "$1/home"
  for i in $(seq 1 "$3"); do mkdir -p "$1/homes/$2$i"; done
  setting "export HOME=$1/home"
  node_before "$1" "unshare --mount sh -c 'mount --bind \"$1/homes/\$0\" \"$1/home\" && exec \"\$@\"' \"\$node\""
}
