// The exact sum as aggregates of DuckDB's:
//
//   _service_sum, _service_average                      of doubles
//   _service_sum_state                                  of doubles: a BLOB, for
//   _service_sum_of_states, _service_average_of_states  of such BLOBs
#include <algorithm>

#include "duckdb_c_api.h"
#include "exact_sum.h"

namespace query {

namespace {

ExactSum& sum_of(Handle state) { return *static_cast<ExactSum*>(state); }

Index state_size(Handle) { return sizeof(ExactSum); }

void begin(Handle, Handle state) { std::memset(state, 0, sizeof(ExactSum)); }

void end(Handle* states, Index count) {
  for (Index i = 0; i < count; i++) sum_of(states[i]).end();
}

// util/duckdb-errors.ts knows the beginning, and shows the end.
void fail(Handle info) {
  duckdb.aggregate_function_set_error(
      info, "Failed to allocate sums of very large or very small numbers (320.0 MiB/320.0 MiB used)");
}

bool are_equal(Handle* states, Index count) {
  if (states[0] != states[count - 1]) return false;
  uintptr_t differences = 0;
  for (Index i = 1; i < count; i++)
    differences |= reinterpret_cast<uintptr_t>(states[i]) ^ reinterpret_cast<uintptr_t>(states[0]);
  return differences == 0;
}

// The C API makes the vector flat.
void update(Handle info, Handle input, Handle* states) {
  const Index count = duckdb.data_chunk_get_size(input);
  Handle vector = duckdb.data_chunk_get_vector(input, 0);
  const double* values = static_cast<const double*>(duckdb.vector_get_data(vector));
  const uint64_t* valid = duckdb.vector_get_validity(vector);
  bool is_good = true;
  for (Index from = 0; from < count; from += ExactSum::BLOCK) {
    const Index to = std::min<Index>(count, from + ExactSum::BLOCK);
    if (are_equal(states + from, to - from))
      is_good &= sum_of(states[from]).add(values + from, valid == nullptr ? nullptr : valid + from / 64, to - from);
    else
      for (Index i = from; i < to; i++)
        if (valid == nullptr || (valid[i / 64] >> i % 64 & 1)) is_good &= sum_of(states[i]).add(values[i]);
  }
  if (!is_good) fail(info);
}

// As in duckdb.h: texts of up to 12 bytes are inlined, and no state is.
struct Text {
  uint32_t size;
  char prefix[4];
  const char* bytes;
};

void update_by_states(Handle info, Handle input, Handle* states) {
  const Index count = duckdb.data_chunk_get_size(input);
  Handle vector = duckdb.data_chunk_get_vector(input, 0);
  const Text* texts = static_cast<const Text*>(duckdb.vector_get_data(vector));
  const uint64_t* valid = duckdb.vector_get_validity(vector);
  bool is_good = true;
  for (Index i = 0; i < count; i++)
    if (valid == nullptr || (valid[i / 64] >> i % 64 & 1))
      is_good &= texts[i].size > 12 && sum_of(states[i]).add_state(texts[i].bytes, texts[i].size);
  if (!is_good) fail(info);
}

void combine(Handle info, Handle* sources, Handle* targets, Index count) {
  bool is_good = true;
  for (Index i = 0; i < count; i++) is_good &= sum_of(targets[i]).add(sum_of(sources[i]));
  if (!is_good) fail(info);
}

template <bool IS_AVERAGE>
void finish(Handle, Handle* states, Handle result, Index count, Index offset) {
  double* values = static_cast<double*>(duckdb.vector_get_data(result)) + offset;
  duckdb.vector_ensure_validity_writable(result);
  uint64_t* valid = duckdb.vector_get_validity(result);
  for (Index i = 0; i < count; i++) {
    const ExactSum& sum = sum_of(states[i]);
    const Index row = offset + i;
    if (sum.count == 0) valid[row / 64] &= ~(uint64_t{1} << row % 64);
    else values[i] = IS_AVERAGE ? sum.total() / static_cast<double>(sum.count) : sum.total();
  }
}

// A group without values has no state.
void finish_state(Handle, Handle* states, Handle result, Index count, Index offset) {
  duckdb.vector_ensure_validity_writable(result);
  uint64_t* valid = duckdb.vector_get_validity(result);
  for (Index i = 0; i < count; i++) {
    const Index row = offset + i;
    const std::string bytes = sum_of(states[i]).state();
    if (sum_of(states[i]).count == 0) valid[row / 64] &= ~(uint64_t{1} << row % 64);
    else duckdb.vector_assign_string_element_len(result, row, bytes.data(), bytes.size());
  }
}

bool register_one(Handle connection, const char* name, int from, int to, AggregateUpdate update,
                  AggregateFinalize finalize) {
  Handle function = duckdb.create_aggregate_function();
  Handle parameter = duckdb.create_logical_type(from);
  Handle type = duckdb.create_logical_type(to);
  duckdb.aggregate_function_set_name(function, name);
  duckdb.aggregate_function_add_parameter(function, parameter);
  duckdb.aggregate_function_set_return_type(function, type);
  duckdb.aggregate_function_set_special_handling(function);  // it leaves out nulls itself
  duckdb.aggregate_function_set_functions(function, state_size, begin, update, combine, finalize);
  duckdb.aggregate_function_set_destructor(function, end);
  const bool is_good = duckdb.register_aggregate_function(connection, function) == DUCKDB_SUCCESS;
  duckdb.destroy_logical_type(&parameter);
  duckdb.destroy_logical_type(&type);
  duckdb.destroy_aggregate_function(&function);
  return is_good;
}

}  // namespace

bool register_exact_sums(Handle connection) {
  constexpr int real = DUCKDB_DOUBLE, state = DUCKDB_BLOB;
  return register_one(connection, "_service_sum", real, real, update, finish<false>) &&
         register_one(connection, "_service_average", real, real, update, finish<true>) &&
         register_one(connection, "_service_sum_state", real, state, update, finish_state) &&
         register_one(connection, "_service_sum_of_states", state, real, update_by_states, finish<false>) &&
         register_one(connection, "_service_average_of_states", state, real, update_by_states, finish<true>);
}

}  // namespace query
