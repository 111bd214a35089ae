"""run_dir"""
