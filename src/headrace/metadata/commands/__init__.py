"""What clients, operators and nodes ask of the controller, one file for each family: against an image, it becomes
records and a response.
"""
