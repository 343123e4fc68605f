// Builders into the bytes of a batch; layout.ts describes them.
#pragma once
#include "builders.h"

namespace weir {

// Where everything will stand; made before the batch's memory is.
class Layout {
 public:
  // `columns` are the plan's; those of a batch of deletes are none. `payload` is null there.
  Layout(uint32_t rows, const PayloadBuilder* payload, const Builder& key, const std::vector<Builder>* columns);

  // Bytes of the whole batch.
  size_t bytes() const { return end_; }

  // Writes all of it, gaps included, whatever stood there.
  void write(uint8_t* out) const;

 private:
  struct Place {
    Kind kind;
    size_t nulls, validity, offsets, data, data_bytes;
  };
  size_t place(size_t bytes);
  void add(const Builder& column);
  void write_column(uint8_t* out, const Place& at, const Builder& column) const;

  uint32_t rows_;
  const PayloadBuilder* payload_;
  std::vector<const Builder*> columns_;
  std::vector<Place> places_;  // payload first, then those of columns_
  size_t end_;
};

}  // namespace weir
