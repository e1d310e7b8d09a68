#include "bindings.h"

void bind_text(nb::module_& m) { (void)m; }
