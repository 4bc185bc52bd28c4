# age: priorities by the age of jobs (multifactor), with a database that knows root and nobody alone
configure() { # dir
  set_key PriorityType=priority/multifactor
  add_lines PriorityWeightAge=1000000 PriorityMaxAge=0-1 PriorityCalcPeriod=00:01
  by_database "$1" associations,limits,qos
}
database() {
  sacctmgr -i add account koala
  for name in root nobody; do sacctmgr -i add user $name account=koala; done
}
