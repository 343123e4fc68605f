// A typed array that JavaScript gave to a native function.
#pragma once
#include <node_api.h>

#include <cstddef>

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
