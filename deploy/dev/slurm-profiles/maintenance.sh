# maintenance: all nodes are reserved for an hour, from ten minutes after the start on
configure() { every PartitionName DefaultTime=5; }
started() {
  scontrol create reservation ReservationName=maintenance StartTime=now+10minutes Duration=60 Nodes=ALL Users=nobody Flags=MAINT
}
