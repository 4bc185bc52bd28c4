# accounting: priorities, associations and limits of QOS from a database: of each user a third of the processors and 30 jobs in `physics`,
#   a sixth at once in QOS `short`; account `closed` takes no jobs; `chem` has ten minutes of processor time left
configure() { # dir
  set_key PriorityType=priority/multifactor
  add_lines PriorityWeightAge=1000 PriorityWeightFairshare=100000 PriorityWeightQOS=10000 PriorityWeightJobSize=100 PriorityCalcPeriod=00:01
  by_database "$1" associations,limits,qos,safe
}
database() { # dir name nodes cpus
  local all=$(($3 * $4)) account user
  sacctmgr -i add qos short set Priority=100 MaxWall=00:30:00 "MaxTRESPerUser=cpu=$((all / 6 + 1))" MaxSubmitJobsPerUser=20 MaxJobsAccruePerUser=2
  sacctmgr -i modify qos normal set "MaxTRESPerJob=cpu=$all" MaxJobsAccruePerUser=4
  for account in physics chem closed; do sacctmgr -i add account $account; done
  for user in "$(id -un)" games nobody; do
    for account in physics chem closed; do sacctmgr -i add user "$user" account=$account; done
  done
  sacctmgr -i modify user account=physics set "GrpTRES=cpu=$((all / 3))" MaxSubmitJobs=30 MaxWall=02:00:00 qos=normal,short
  sacctmgr -i modify user account=closed set MaxSubmitJobs=0
  sacctmgr -i modify account chem set GrpTRESMins=cpu=10
}
