/** Which kernels run: the one place that chooses between the native one and the TypeScript one. */
import { CannotRun } from '../util/errors.ts'
import { makeJsKernel } from './kernel-js.ts'
import { tryNativeKernel } from './kernel-native.ts'
import type { KernelChoice } from './parse-workers.ts'
import type { Kernels } from './run-task.ts'

/**
 * The kernels for `choice`; the js kernel is always there, as the judge.
 * @throws CannotRun where the native one is wanted and was not built
 */
export function chooseKernels(choice: KernelChoice): Kernels {
  const native = choice === 'js' ? undefined : tryNativeKernel()
  if (choice === 'native' && native === undefined)
    throw new CannotRun(
      '--kernel native: the native module is not there; it is built where a C++ compiler is found',
    )
  return { js: makeJsKernel, native }
}
