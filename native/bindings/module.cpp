#include "bindings.h"

NB_MODULE(_native, m) {
  // Models that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  m.doc() = "The native engine of hedgerow. Private: use the classes of the package.";
  bind_engine(m);
  bind_judgement(m);
  bind_calibration(m);
  bind_data(m);
  bind_text(m);
}
