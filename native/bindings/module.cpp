#include "bindings.h"
#include "scratch.h"

NB_MODULE(_native, m) {
  // Models that live until the interpreter ends are no leak.
  nb::set_leak_warnings(false);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const hedgerow::ScratchError& error) {
      PyErr_SetString(PyExc_OSError, error.what());
    }
  });
  m.doc() = "The native engine of hedgerow. Private: use the classes of the package.";
  bind_engine(m);
  bind_forest(m);
  bind_measures(m);
  bind_calibration(m);
  bind_data(m);
  bind_text(m);
}
