// The module as an extension of DuckDB, by its C extension API: weir_init_c_api. The functions that
// are called are those of duckdb.h, section "C API" of DuckDB's documentation, stable since 1.2.
// The package ships no header, so they are declared here and looked up by name.
#include "duckdb_c_api.h"

#include <dlfcn.h>

namespace query {

DuckDb duckdb;

namespace {

// As in duckdb_extension.h.
struct ExtensionAccess {
  void (*set_error)(Handle info, const char* error);
  Handle* (*get_database)(Handle info);
  const void* (*get_api)(Handle info, const char* version);
};

template <class Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

// `known`: an address in DuckDB's library, which the package has loaded. It is not closed again.
bool look_up_all(const void* known) {
  Dl_info found;
  if (dladdr(known, &found) == 0) return false;
  void* library = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
#define FUNCTION(name, result, ...) \
  if (!look_up(library, "duckdb_" #name, duckdb.name)) return false;
  DUCKDB_FUNCTIONS(FUNCTION)
#undef FUNCTION
  return true;
}

bool register_in(Handle database) {
  Handle connection = nullptr;
  if (duckdb.connect(database, &connection) != DUCKDB_SUCCESS) return false;
  const bool is_good = register_is_live(connection) && register_exact_sums(connection);
  duckdb.disconnect(&connection);
  return is_good;
}

}  // namespace

}  // namespace query

// DuckDB calls it for each instance that loads the extension, also from several threads at once.
extern "C" __attribute__((visibility("default"))) bool weir_init_c_api(void* info,
                                                                       query::ExtensionAccess* access) {
  static const bool is_found = query::look_up_all(reinterpret_cast<const void*>(access->get_database));
  if (is_found && query::register_in(*access->get_database(info))) return true;
  access->set_error(info, "DuckDB's C API does not offer what Weir needs of it");
  return false;
}
