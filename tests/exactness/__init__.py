"""One table of what people fit, for every test that compares several replicas with one."""
