def read_vocabulary(path): raise NotImplementedError
