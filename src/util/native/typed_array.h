// Typed arrays that JavaScript gives to a native function, and those that it gets back.
#pragma once
#include <node_api.h>

#include <cstddef>
#include <cstring>

template <class Element>
struct Array {
  Element* data = nullptr;
  size_t size = 0;
};

// False where `value` is no typed array of the type `wanted`. An empty array may have no memory,
// but `data` is never null.
template <class Element>
bool read_array(napi_env env, napi_value value, napi_typedarray_type wanted, Array<Element>& to) {
  static Element none;
  napi_typedarray_type type;
  void* data = nullptr;
  if (napi_get_typedarray_info(env, value, &type, &to.size, &data, nullptr, nullptr) != napi_ok) return false;
  to.data = to.size == 0 ? &none : static_cast<Element*>(data);
  return type == wanted;
}

// A typed array of JavaScript with a copy of `count` elements; null where it cannot be made.
template <class Element>
napi_value new_array(napi_env env, napi_typedarray_type type, const Element* from, size_t count) {
  napi_value buffer, array;
  void* memory = nullptr;
  if (napi_create_arraybuffer(env, count * sizeof(Element), &memory, &buffer) != napi_ok) return nullptr;
  if (count > 0) std::memcpy(memory, from, count * sizeof(Element));
  return napi_create_typedarray(env, type, count, buffer, 0, &array) == napi_ok ? array : nullptr;
}
