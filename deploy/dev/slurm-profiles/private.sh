# private: ordinary users see their own jobs, usage and reservations alone (PrivateData); root and the SlurmUser see all
configure() { set_key PrivateData=accounts,jobs,reservations,usage,users; }
