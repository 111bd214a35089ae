"""config_run"""
