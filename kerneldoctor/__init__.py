"""kerneldoctor: can this machine run this GPU kernel?"""
