#include "bindings.h"

void bind_engine(nb::module_& m) { (void)m; }
