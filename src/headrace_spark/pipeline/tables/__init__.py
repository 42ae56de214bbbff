"""From a source's records to the result of the pipeline's query: streaming and static tables, expectations, dead
letters, SQL or Python; nothing is started or written here.
"""
