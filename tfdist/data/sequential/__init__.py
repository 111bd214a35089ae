"""sequential"""
