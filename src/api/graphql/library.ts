/** The parts of the graphql package that Weir uses, loaded as util/load-package.ts explains. */
import type * as Graphql from 'graphql'
import { loadPackage } from '../../util/load-package.ts'

export const {
  buildSchema,
  defaultFieldResolver,
  execute,
  getNamedType,
  getNullableType,
  getOperationAST,
  GraphQLError,
  isEnumType,
  isLeafType,
  isListType,
  isObjectType,
  isScalarType,
  Kind,
  Lexer,
  parse,
  printSchema,
  Source,
  TokenKind,
  validate,
} = loadPackage('graphql') as typeof Graphql

export type GraphQLError = Graphql.GraphQLError
