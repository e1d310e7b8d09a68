#include "bindings.h"

void bind_data(nb::module_& m) { (void)m; }
