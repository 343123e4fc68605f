/** What we use of the graphql package; see util/load-package.ts. */
import type * as Graphql from 'graphql'
import { loadPackage } from '../util/load-package.ts'

export const {
  buildSchema,
  defaultFieldResolver,
  execute,
  getNullableType,
  GraphQLError,
  isListType,
  isObjectType,
  isScalarType,
  Kind,
  Lexer,
  parse,
  Source,
  TokenKind,
  validate,
} = loadPackage('graphql') as typeof Graphql

export type GraphQLError = Graphql.GraphQLError
