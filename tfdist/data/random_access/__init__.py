"""random_access"""
