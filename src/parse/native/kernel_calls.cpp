// The kernel's N-API functions. Every argument and every status is checked here. A JavaScript error
// is thrown for calls that only Weir itself can make wrong. A kernel object belongs to the thread
// that made it.
#include "kernel.h"

#include "../../util/native/addon.h"
#include "../../util/native/typed_array.h"

using weir::Kernel;

// It tells kernels from every other wrapped object.
static const napi_type_tag kernel_tag = {0x77656972206b6572ull, 0x6e656c2063757421ull};

static napi_value refuse(napi_env env, const char* what) {
  // An exception may be pending already, from the call that failed.
  bool pending = false;
  if (napi_is_exception_pending(env, &pending) == napi_ok && !pending) napi_throw_type_error(env, nullptr, what);
  return nullptr;
}

// The garbage collector sees a small object. It has to know what hangs on it, or it lets thousands
// of them wait.
static void count_bytes(napi_env env, int64_t bytes) {
  int64_t all;
  napi_adjust_external_memory(env, bytes, &all);
}

static void drop_kernel(napi_env env, Kernel* kernel) {
  count_bytes(env, -static_cast<int64_t>(kernel->bytes()));
  delete kernel;
}

static void free_kernel(napi_env env, void* kernel, void*) { drop_kernel(env, static_cast<Kernel*>(kernel)); }

static bool read_string(napi_env env, napi_value from, std::string* out) {
  size_t bytes;
  if (napi_get_value_string_utf8(env, from, nullptr, 0, &bytes) != napi_ok) return false;
  out->resize(bytes + 1);  // room for the NUL that N-API writes
  if (napi_get_value_string_utf8(env, from, &(*out)[0], bytes + 1, &bytes) != napi_ok) return false;
  out->resize(bytes);
  return true;
}

static bool read_columns(napi_env env, napi_value properties, const Array<int32_t>& words, weir::PoolSchema* schema) {
  uint32_t length;
  bool is_array;
  if (napi_is_array(env, properties, &is_array) != napi_ok || !is_array) return false;
  if (napi_get_array_length(env, properties, &length) != napi_ok || words.size != 2 * size_t{length}) return false;
  for (uint32_t index = 0; index < length; index++) {
    napi_value property;
    weir::SchemaColumn column;
    if (napi_get_element(env, properties, index, &property) != napi_ok) return false;
    if (!read_string(env, property, &column.property)) return false;
    int32_t type = words.data[2 * index];
    if (type < 0 || type >= weir::type_count) return false;
    column.type = static_cast<weir::Type>(type);
    column.required = (words.data[2 * index + 1] & 1) != 0;
    column.cuts_epochs = (words.data[2 * index + 1] & 2) != 0;
    schema->columns.push_back(std::move(column));
  }
  return true;
}

static bool read_key(const weir::PoolSchema& schema, const Array<int32_t>& key) {
  for (size_t i = 0; i < key.size; i++) {
    const int32_t index = key.data[i];
    if (index == weir::key_received_at) continue;
    if (index < 0 || static_cast<size_t>(index) >= schema.columns.size()) return false;
    // The encoding of a key has no null, and no JSON.
    const weir::SchemaColumn& column = schema.columns[index];
    if (!column.required || column.type == weir::Type::json) return false;
  }
  return true;
}

// makeKernel(properties: string[], columns: Int32Array (type, and 1 for required + 2 for cut epoch
// numbers, per column), key: Int32Array, deletes: boolean): a kernel. A pool without a unique id
// has an empty key.
static napi_value make_kernel(napi_env env, napi_callback_info info) {
  size_t count = 4;
  napi_value arguments[4], made;
  Array<int32_t> words, key;
  weir::PoolSchema schema;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count < 4 ||
      !read_array(env, arguments[1], napi_int32_array, words) || !read_columns(env, arguments[0], words, &schema) ||
      !read_array(env, arguments[2], napi_int32_array, key) || !read_key(schema, key) ||
      napi_get_value_bool(env, arguments[3], &schema.deletes) != napi_ok)
    return refuse(env, "makeKernel takes properties, their types, a key of required columns and a boolean");
  schema.key.assign(key.data, key.data + key.size);
  if (napi_create_object(env, &made) != napi_ok || napi_type_tag_object(env, made, &kernel_tag) != napi_ok)
    return refuse(env, "makeKernel: no object");
  Kernel* kernel = new Kernel(std::move(schema));
  if (napi_wrap(env, made, kernel, free_kernel, nullptr, nullptr) != napi_ok) {
    delete kernel;
    return refuse(env, "makeKernel: cannot wrap");
  }
  count_bytes(env, static_cast<int64_t>(kernel->bytes()));
  return made;
}

static Kernel* unwrap(napi_env env, napi_value from) {
  void* kernel = nullptr;
  bool ours = false;
  napi_valuetype type;
  if (napi_typeof(env, from, &type) != napi_ok || type != napi_object) return nullptr;
  if (napi_check_object_type_tag(env, from, &kernel_tag, &ours) != napi_ok || !ours) return nullptr;
  return napi_unwrap(env, from, &kernel) == napi_ok ? static_cast<Kernel*>(kernel) : nullptr;
}

// freeKernel(kernel): no other call takes the kernel afterwards. Without it the memory waits for a
// finalizer, and those run in a turn of the event loop, which a parse worker may never have.
static napi_value release_kernel(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value arguments[1];
  void* kernel = nullptr;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count < 1 ||
      unwrap(env, arguments[0]) == nullptr || napi_remove_wrap(env, arguments[0], &kernel) != napi_ok)
    return refuse(env, "freeKernel takes a kernel");
  drop_kernel(env, static_cast<Kernel*>(kernel));
  return nullptr;
}

static bool set_words(napi_env env, napi_value to, const char* name, const weir::Buffer<int32_t>& words) {
  napi_value array = new_array(env, napi_int32_array, words.data, words.size);
  return array != nullptr && napi_set_named_property(env, to, name, array) == napi_ok;
}

static napi_value results(napi_env env, const Kernel& kernel) {
  napi_value result, bytes;
  if (napi_create_object(env, &result) != napi_ok ||
      napi_create_double(env, static_cast<double>(kernel.batch_bytes()), &bytes) != napi_ok ||
      napi_set_named_property(env, result, "batchBytes", bytes) != napi_ok ||
      !set_words(env, result, "outcomes", kernel.outcomes()) || !set_words(env, result, "errors", kernel.errors()))
    return refuse(env, "parse: no memory for the outcomes");
  return result;
}

// parse(kernel, slab: Uint8Array, table: Float64Array, from: number, to: number): {batchBytes,
// outcomes, errors}. writeBatch must follow before the slab changes, because it copies the payloads
// from there.
static napi_value parse(napi_env env, napi_callback_info info) {
  size_t count = 5;
  napi_value arguments[5];
  Array<uint8_t> slab;
  Array<double> table;
  int64_t from, to;
  Kernel* kernel;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count < 5 ||
      (kernel = unwrap(env, arguments[0])) == nullptr || !read_array(env, arguments[1], napi_uint8_array, slab) ||
      !read_array(env, arguments[2], napi_float64_array, table) ||
      napi_get_value_int64(env, arguments[3], &from) != napi_ok ||
      napi_get_value_int64(env, arguments[4], &to) != napi_ok || from < 0 || to < from ||
      static_cast<uint64_t>(to) > table.size / weir::request_words)
    return refuse(env, "parse takes a kernel, a slab, a table and rows of it");
  const char* mistake = kernel->parse(slab.data, slab.size, table.data + from * weir::request_words, to - from);
  if (mistake == nullptr) return results(env, *kernel);
  napi_throw_range_error(env, nullptr, mistake);
  return nullptr;
}

// writeBatch(kernel, into: Uint8Array of batchBytes): writes every byte of the last call's batch.
// The caller allocates, because only JavaScript can get an ArrayBuffer that is not zeroed first.
static napi_value write_batch(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  Array<uint8_t> into;
  Kernel* kernel;
  if (napi_get_cb_info(env, info, &count, arguments, nullptr, nullptr) != napi_ok || count < 2 ||
      (kernel = unwrap(env, arguments[0])) == nullptr || !read_array(env, arguments[1], napi_uint8_array, into) ||
      !kernel->has_batch() || into.size != kernel->batch_bytes())
    return refuse(env, "writeBatch takes a kernel and an array of the size of its last batch");
  kernel->write_batch(into.data);
  return nullptr;
}

void init_batch(napi_env env, napi_value exports) {
  add_function(env, exports, "makeKernel", make_kernel);
  add_function(env, exports, "freeKernel", release_kernel);
  add_function(env, exports, "parse", parse);
  add_function(env, exports, "writeBatch", write_batch);
}
