"""script_run"""
