// DuckDB's C API, as far as the module's functions in DuckDB need it (duckdb_c_api.cpp).
#pragma once
#include <cstdint>

namespace query {

// As in duckdb.h, where each kind of handle has a type of its own.
using Handle = void*;
using Index = uint64_t;
constexpr int DUCKDB_BOOLEAN = 1, DUCKDB_BIGINT = 5, DUCKDB_UBIGINT = 9, DUCKDB_DOUBLE = 11,
              DUCKDB_BLOB = 18;
constexpr int DUCKDB_SUCCESS = 0;
using ScalarFunction = void (*)(Handle info, Handle input, Handle output);
using AggregateStateSize = Index (*)(Handle info);
using AggregateInit = void (*)(Handle info, Handle state);
using AggregateUpdate = void (*)(Handle info, Handle input, Handle* states);
using AggregateCombine = void (*)(Handle info, Handle* sources, Handle* targets, Index count);
using AggregateFinalize = void (*)(Handle info, Handle* sources, Handle result, Index count, Index offset);
using AggregateDestroy = void (*)(Handle* states, Index count);

// The functions by their names without `duckdb_`.
#define DUCKDB_FUNCTIONS(FUNCTION)                                                              \
  FUNCTION(connect, int, Handle, Handle*)                                                       \
  FUNCTION(disconnect, void, Handle*)                                                           \
  FUNCTION(create_logical_type, Handle, int)                                                    \
  FUNCTION(destroy_logical_type, void, Handle*)                                                 \
  FUNCTION(data_chunk_get_size, Index, Handle)                                                  \
  FUNCTION(data_chunk_get_vector, Handle, Handle, Index)                                        \
  FUNCTION(vector_get_data, void*, Handle)                                                      \
  FUNCTION(vector_get_validity, uint64_t*, Handle)                                              \
  FUNCTION(vector_ensure_validity_writable, void, Handle)                                       \
  FUNCTION(vector_assign_string_element_len, void, Handle, Index, const char*, Index)           \
  FUNCTION(create_scalar_function, Handle)                                                      \
  FUNCTION(destroy_scalar_function, void, Handle*)                                              \
  FUNCTION(scalar_function_set_name, void, Handle, const char*)                                 \
  FUNCTION(scalar_function_set_special_handling, void, Handle)                                  \
  FUNCTION(scalar_function_add_parameter, void, Handle, Handle)                                 \
  FUNCTION(scalar_function_set_return_type, void, Handle, Handle)                               \
  FUNCTION(scalar_function_set_function, void, Handle, ScalarFunction)                          \
  FUNCTION(scalar_function_set_error, void, Handle, const char*)                                \
  FUNCTION(register_scalar_function, int, Handle, Handle)                                       \
  FUNCTION(create_aggregate_function, Handle)                                                   \
  FUNCTION(destroy_aggregate_function, void, Handle*)                                           \
  FUNCTION(aggregate_function_set_name, void, Handle, const char*)                              \
  FUNCTION(aggregate_function_set_special_handling, void, Handle)                               \
  FUNCTION(aggregate_function_add_parameter, void, Handle, Handle)                              \
  FUNCTION(aggregate_function_set_return_type, void, Handle, Handle)                            \
  FUNCTION(aggregate_function_set_functions, void, Handle, AggregateStateSize, AggregateInit,   \
           AggregateUpdate, AggregateCombine, AggregateFinalize)                                \
  FUNCTION(aggregate_function_set_destructor, void, Handle, AggregateDestroy)                   \
  FUNCTION(aggregate_function_set_error, void, Handle, const char*)                             \
  FUNCTION(register_aggregate_function, int, Handle, Handle)

struct DuckDb {
#define FUNCTION(name, result, ...) result (*name)(__VA_ARGS__);
  DUCKDB_FUNCTIONS(FUNCTION)
#undef FUNCTION
};
// Set before any function of the module is registered.
extern DuckDb duckdb;

bool register_is_live(Handle connection);     // live_rows.cpp
bool register_exact_sums(Handle connection);  // exact_sum.cpp

}  // namespace query
