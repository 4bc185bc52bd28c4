# quotas: each user has three quarters of the slots at most, nobody a single one (resource quota sets)
configured() { # dir name nodes slots
  printf '{\n name users\n enabled TRUE\n limit users nobody to slots=0\n limit users {*} to slots=%d\n}\n' "$(($3 * $4 * 3 / 4))" > "$1/quotas.conf"
  qconf -Arqs "$1/quotas.conf"
}
