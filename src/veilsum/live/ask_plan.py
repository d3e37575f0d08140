"""stub"""
def planned(path, asked):
    return {"html": "<h1>Plan ± </h1>"}
