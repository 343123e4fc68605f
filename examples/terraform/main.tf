# A pool of orders, two metrics over it, and an application that may see one customer's rows.
# README.md says how to run it against a Weir on this machine.

terraform {
  required_providers {
    propel = {
      source = "propeldata/propel"
    }
  }
}

variable "oauth_url" {
  type    = string
  default = "http://127.0.0.1:8420/oauth2/token"
}

variable "api_url" {
  type    = string
  default = "http://127.0.0.1:8420/graphql"
}

variable "description" {
  type    = string
  default = "Orders as the shop posts them"
}

variable "with_country" {
  type        = bool
  default     = false
  description = "Adds the column country: apply once without it, then with it."
}

# The id and the secret come from PROPEL_CLIENT_ID and PROPEL_CLIENT_SECRET.
provider "propel" {
  oauth_url = var.oauth_url
  api_url   = var.api_url
}

resource "propel_data_source" "orders" {
  unique_name = "shop_orders"
  description = var.description
  type        = "WEBHOOK"

  webhook_connection_settings {
    timestamp = "ordered_at"
    unique_id = "order_id"
    tenant    = "customer_id"

    basic_auth {
      username = "shop"
      password = "a-password-of-the-shop"
    }

    column {
      name          = "order_id"
      type          = "STRING"
      nullable      = false
      json_property = "order_id"
    }
    column {
      name          = "customer_id"
      type          = "STRING"
      nullable      = false
      json_property = "customer.id"
    }
    column {
      name          = "ordered_at"
      type          = "TIMESTAMP"
      nullable      = false
      json_property = "ordered_at"
    }
    column {
      name          = "amount"
      type          = "DOUBLE"
      nullable      = true
      json_property = "amount"
    }

    dynamic "column" {
      for_each = var.with_country ? ["country"] : []
      content {
        name          = column.value
        type          = "STRING"
        nullable      = true
        json_property = column.value
      }
    }

    access_control_enabled = true
  }
}

resource "propel_metric" "revenue" {
  unique_name = "revenue"
  description = "Sum of the amounts"
  data_pool   = propel_data_source.orders.webhook_connection_settings[0].data_pool_id
  type        = "SUM"
  measure     = "amount"
  dimensions  = ["customer_id"]

  filter {
    column   = "amount"
    operator = "GREATER_THAN"
    value    = "0"
  }
}

resource "propel_metric" "average_order" {
  unique_name = "average_order"
  description = "Revenue by order"
  data_pool   = propel_data_source.orders.webhook_connection_settings[0].data_pool_id
  type        = "CUSTOM"
  expression  = "SUM(amount) / COUNT_DISTINCT(order_id)"
}

resource "propel_application" "dashboard" {
  unique_name = "dashboard"
  description = "Reads the metrics of one customer"
  propeller   = "P1_SMALL"
  scopes      = ["METRIC_QUERY", "DATA_POOL_QUERY"]
}

resource "propel_data_pool_access_policy" "one_customer" {
  unique_name = "one_customer"
  description = "Rows of the customer that the token names"
  data_pool   = propel_data_source.orders.webhook_connection_settings[0].data_pool_id
  columns     = ["order_id", "customer_id", "ordered_at", "amount"]

  row {
    column   = "customer_id"
    operator = "EQUALS"
    value    = "$${{ customer_id }}"
  }

  applications = [propel_application.dashboard.id]
}

output "webhook_url" {
  value = propel_data_source.orders.webhook_connection_settings[0].webhook_url
}

output "dashboard_id" {
  value = propel_application.dashboard.id
}
