# power: all nodes are powered down, are woken for jobs (3 s of boot), and put to sleep after 20 s without one
configure() { # dir
  every NodeName State=CLOUD
  set_key SuspendTime=20
  add_lines SuspendTimeout=5 ResumeTimeout=60 ResumeRate=0 SuspendRate=0
  set_key SlurmctldParameters=idle_on_node_suspend,cloud_dns,power_save_interval=2,power_save_min_interval=0
  set_key PrivateData=cloud
  set_key "ResumeProgram=$1/resume"
  set_key "SuspendProgram=$1/suspend"
  # Slurm ends what its program leaves in its session, and gives it no open files.
  cat > "$1/resume" <<E2
#!/bin/sh
for node in \$(scontrol show hostnames "\$1"); do
  setsid sh -c 'sleep 3; exec "\$0" "\$1" -b' "$1/start-node" "\$node" </dev/null >>"$1/log/start.log" 2>&1 &
done
E2
  cat > "$1/suspend" <<E2
#!/bin/sh
for node in \$(scontrol show hostnames "\$1"); do kill "\$(cat "$1/slurmd-\$node.pid")"; done
E2
  chmod 755 "$1/resume" "$1/suspend"
}
