"""What runs inside an endpoint's container, and once while its image is built. The standard library alone, any Python from 3.9 on.

AWS's image brought botocore in some releases and not in others, so nothing here counts on it.
"""
